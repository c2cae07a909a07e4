import type { TokenService } from '@leasehold/api';
import {
  insertToken,
  listTokens,
  newTokenSecret,
  revokeToken,
  TOKENS_TOPIC,
  writeAudit,
  type Store,
} from '@leasehold/keys-core/store';

/** API tokens over the store. Every change is audited in its own transaction. */
export function createTokenService(store: Store): TokenService {
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
        });
        const { role, namespaces, droneId, expiresAt } = made;
        await writeAudit(tx, {
          ...actor,
          action: 'tokens.create',
          resource: `token:${made.tokenId}`,
          detail: { name: made.name, role, namespaces, droneId, expiresAt },
        });
        return made;
      });
      return { ...token, secret };
    },
    list: (input) => listTokens(store.prisma, input),
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
