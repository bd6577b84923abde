/** What the process wants to know of a connection. */
export interface ConnectionEvents {
  opened(details: { username: string; vhost: string }): void;
  closed(why: string): void;
  published(count: number): void;
  delivered(count: number): void;
}
