/** What `GET /platform/check` answers: what a deployment's configuration would make fail. */
import * as z from 'zod';

/** `FAILURE`: something that is wanted cannot work; `WARNING`: something is off, perhaps on purpose. */
export const finding = z.strictObject({
  /** The name of the variable, secret or binding. */
  setting: z.string(),
  outcome: z.enum(['FAILURE', 'WARNING']),
  text: z.string(),
});
export type Finding = z.infer<typeof finding>;

export const listener = z.strictObject({
  host: z.string(),
  port: z.int(),
  /** PEM of the authority that clients trust; null: those of the operating system. */
  ca: z.string().nullable(),
});
export type Listener = z.infer<typeof listener>;

export const configurationCheck = z.strictObject({
  findings: z.array(finding),
  publicUrl: z.string().nullable(),
  listeners: z.strictObject({
    amqp: listener.nullable(),
    mqtt: listener.nullable(),
    mqttMtls: listener.nullable(),
  }),
});
export type ConfigurationCheck = z.infer<typeof configurationCheck>;
