import type { Role } from '@leasehold/keys-core';

/** A command that tries out a token. */
export function exampleOf(
  token: { readonly role: Role; readonly secret: string },
  origin: string,
): { readonly title: string; readonly command: string } {
  if (token.role === 'drone') {
    return {
      title: 'Start the drone with it, where the controller is reached at its own address',
      command: `LEASEHOLD_URL=${origin} \\\n  LEASEHOLD_TOKEN=${token.secret} \\\n  npx leasehold drone --config drone.json`,
    };
  }
  return {
    title: 'Try it: who am I?',
    command: `curl ${origin}/trpc/session.get \\\n  -H 'authorization: Bearer ${token.secret}'`,
  };
}
