/** The steps of a publish at which the faulty Worker asks, in order, and those of what then goes out. */
export type Step =
  | 'before-rpc'
  | 'after-commit'
  | 'before-vhost-stored'
  | 'before-confirm'
  | 'before-dispatch'
  | 'before-receive'
  | 'before-delivery';
