/**
 * The steps of a publish at which the faulty Worker asks, in order, followed by those of its outgoing
 * messages.
 */
export type Step =
  | 'before-rpc'
  | 'after-commit'
  | 'before-vhost-stored'
  | 'before-confirm'
  | 'before-dispatch'
  | 'before-receive'
  | 'before-delivery';
