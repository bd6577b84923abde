/** Maps in the memory of an isolate, which clients could fill. */

/** Sets an entry as the newest one. While the map has `most` others, the oldest of them is forgotten. */
export function setBounded<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, most: number): void {
  map.delete(key);
  const [oldest] = map.keys();
  if (oldest !== undefined && map.size >= most) map.delete(oldest);
  map.set(key, value);
}
