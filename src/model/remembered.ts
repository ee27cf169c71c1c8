/** What `make` gives for a key, which is made once and kept for as long as the key lives. */
export function remembered<Key extends object, Value>(
  known: WeakMap<Key, Value>,
  key: Key,
  make: (key: Key) => Value,
): Value {
  const earlier = known.get(key);
  if (earlier !== undefined) return earlier;
  const value = make(key);
  known.set(key, value);
  return value;
}
