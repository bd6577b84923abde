/** The Worker that tests call as their own main module. */
declare global {
  namespace Cloudflare {
    interface GlobalProps {
      mainModule: typeof import('../../../worker/index.ts');
    }
  }
}

export {};
