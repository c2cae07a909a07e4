/** Tests that are run together on a mutation. */
export interface Round {
  readonly suite: 'gate' | 'all';
  readonly needsBundles: boolean;
  readonly files: readonly string[];
}

export function roundsFor(file: string, testFiles: readonly string[]): Round[];
