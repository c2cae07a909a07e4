/** How the browser asks for what has changed in an answer, and how the console's server answers. */

/** Of a request: the tag of the answer that the browser has, or {@link NOTHING}. */
export const HAVE_HEADER = 'x-leasehold-have';
/** A browser without an earlier answer. */
export const NOTHING = 'nothing';
/** Of an answer: what it is called in a later request. */
export const TAG_HEADER = 'x-leasehold-tag';
/** The type of an answer that is a delta to what the browser has; see `json-delta.ts`. */
export const DELTA_TYPE = 'application/vnd.leasehold.delta+json';
