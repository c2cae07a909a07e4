/** What a subscription tells about itself, as tRPC takes it. */
interface Listener<Data> {
  readonly onData: (data: Data) => void;
  readonly onError: (error: unknown) => void;
  readonly onComplete: () => void;
}

/**
 * Follows a subscription until it is complete, or `stop` aborts.
 * @throws the error that ends it.
 */
export function follow<Data>(
  stop: AbortSignal,
  subscribe: (listener: Listener<Data>) => { unsubscribe(): void },
  onData: (data: Data) => void,
): Promise<void> {
  const over = new AbortController();
  return new Promise<void>((resolve, reject) => {
    const subscription = subscribe({ onData, onError: reject, onComplete: resolve });
    const leave = (): void => {
      subscription.unsubscribe();
      resolve();
    };
    stop.addEventListener('abort', leave, { signal: over.signal });
  }).finally(() => over.abort());
}
