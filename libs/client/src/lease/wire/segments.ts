/** Shows in the compiler's error what is wrong with a literal segment. */
export interface InvalidSegment<Segment extends string> {
  readonly 'a segment must not be empty or contain "."': Segment;
}

/** A valid segment of a namespace. A `string` that is not a literal is checked at run time. */
export type ValidSegment<Segment extends string> = Segment extends '' | `${string}.${string}`
  ? string extends Segment
    ? Segment
    : InvalidSegment<Segment>
  : Segment;

/** A namespace whose literal segments are all valid. */
export type ValidNamespace<Namespace extends readonly string[]> = {
  readonly [Place in keyof Namespace]: ValidSegment<Namespace[Place]>;
};
