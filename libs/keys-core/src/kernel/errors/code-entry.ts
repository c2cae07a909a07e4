/** What the registry records about one code. */
export interface CodeDraft {
  /** The HTTP status of the answer. */
  readonly http: number;
  /** Whether the same request may succeed if it is sent again unchanged; otherwise left out. */
  readonly retryable?: true;
  /** What an operator reads. */
  readonly text: string;
  /** What to do about it. */
  readonly doc: string;
}
