/** What drones offer, and what requests want of it. */

/** What a request wants to start. */
export interface WantedProgram {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** `not_allowed`: drones offer the program, and none takes what the request passes to it. */
export type Offer = 'offered' | 'not_allowed' | 'missing';

/** Judges requests by what the drones of a datacenter offer. */
export type Offered = (wanted: WantedProgram) => Offer;
