/** What the registry records about one code. */
export interface CodeEntry {
  /** The HTTP status of the answer. */
  readonly http: number;
  /** Whether the same request may succeed if it is sent again unchanged. */
  readonly retryable: boolean;
  /** What an operator reads. */
  readonly text: string;
  /** What to do about it. */
  readonly doc: string;
}
