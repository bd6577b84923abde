import { defineConfig } from 'drizzle-kit';

export default defineConfig({ dialect: 'sqlite', schema: './registry/schema.ts', out: './registry/sql' });
