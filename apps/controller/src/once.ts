/** A function that runs `fn` at its first call, and does nothing at the others. */
export function once(fn: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    fn();
  };
}
