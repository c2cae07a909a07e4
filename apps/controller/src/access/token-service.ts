import type { TokenService } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import {
  insertToken,
  listTokens,
  newTokenSecret,
  readToken,
  revokeToken,
  TOKENS_TOPIC,
  writeAudit,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { FairUse } from '../fair-use/fair-use.ts';

/** API tokens over the store. Every change is audited in its own transaction. */
export function createTokenService(store: Store, fairUse: Pick<FairUse, 'report'>): TokenService {
  return {
    async create(request, actor) {
      const secret = newTokenSecret();
      const token = await store.prisma.$transaction(async (tx) => {
        const made = await insertToken(tx, {
          tokenId: store.ids.uuid(),
          secret,
          name: request.name,
          role: request.role,
          namespaces: request.namespaces ?? null,
          droneId: request.droneId ?? null,
          createdBy: actor.actor,
          expiresAt: request.expiresAt ?? null,
          programs: request.programs ?? null,
          capacity: request.capacity ?? null,
          addresses: request.addresses ?? null,
          limits: request.limits ?? null,
        });
        const { role, namespaces, droneId, expiresAt } = made;
        const { programs, capacity, addresses, limits } = made;
        await writeAudit(tx, {
          ...actor,
          action: 'tokens.create',
          resource: `token:${made.tokenId}`,
          detail: {
            ...{ name: made.name, role, namespaces, droneId, expiresAt },
            ...{ programs, capacity, addresses, limits },
          },
        });
        return made;
      });
      return { ...token, secret };
    },
    list: (input) => listTokens(store.reads, input),
    async get(tokenId) {
      const token = await readToken(store.reads, tokenId);
      if (token === undefined) throw new LeaseError('token.not_found');
      const { role, limits: overrides } = token;
      return { token, fairUse: fairUse.report({ principal: tokenId, role, overrides }) };
    },
    async revoke(input, actor) {
      const { changed } = await store.prisma.$transaction(async (tx) => {
        const revoked = await revokeToken(tx, input.tokenId);
        if (revoked.changed) {
          await writeAudit(tx, {
            ...actor,
            action: 'tokens.revoke',
            resource: `token:${input.tokenId}`,
            reason: input.reason,
            detail: { name: revoked.name },
          });
        }
        return revoked;
      });
      if (changed) store.hints.notify(TOKENS_TOPIC);
      return { changed };
    },
  };
}
