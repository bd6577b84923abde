/** The steps of a publish at which the faulty Worker asks, in order; the last two are of what then goes out. */
export type Step =
  | 'before-rpc'
  | 'after-commit'
  | 'before-vhost-stored'
  | 'before-confirm'
  | 'before-dispatch'
  | 'before-delivery';
