/** Puts an entry at the end of a map, whose oldest one goes when there would be more than `max`. */
export function keepNewest<Key, Value>(
  map: Map<Key, Value>,
  max: number,
  [key, value]: readonly [Key, Value],
): void {
  map.delete(key);
  const [oldest] = map.keys();
  if (oldest !== undefined && map.size >= max) map.delete(oldest);
  map.set(key, value);
}
