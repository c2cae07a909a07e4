import type { TokenService, UseReport } from './token-types.ts';
import { LeaseError } from '../kernel/errors.ts';
import { countTokens, insertToken, listTokens, readToken, revokeToken } from './sql/api-tokens.ts';
import { newTokenSecret } from './token-secret.ts';
import { TOKENS_TOPIC } from './token-authority.ts';
import { writeAudit } from './sql/audit.ts';
import type { Store } from '../postgres/open-store.ts';

/** API tokens over the store. Every change is audited in its own transaction. */
export function createTokenService(store: Store, fairUse: UseReport): TokenService {
  return {
    async create(request, actor) {
      const secret = newTokenSecret();
      const token = await store.general.$transaction(async (tx) => {
        const made = await insertToken(tx, {
          ...request,
          tokenId: store.ids.uuid(),
          secret,
          createdBy: actor.actor,
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
    count: (input) => countTokens(store.reads, input),
    async get(tokenId) {
      const token = await readToken(store.general, tokenId);
      if (token === undefined) throw new LeaseError('token.not_found');
      const { role, limits: overrides } = token;
      return { token, fairUse: fairUse.report({ principal: tokenId, role, overrides }) };
    },
    async revoke(input, actor) {
      const { changed } = await store.general.$transaction(async (tx) => {
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
