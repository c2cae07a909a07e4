/** The topic of hints that a key was freed. */
export function keyTopic(key: { readonly namespace: string; readonly name: string }): string {
  return `key:${key.namespace}/${key.name}`;
}
