import { auditListInputSchema } from '../../contract/access/audit.ts';
import { asOf } from '../as-of.ts';
import { fleetOperatorProcedure, router } from '../../trpc.ts';

/** What operators did outside of leases, in every namespace. */
export const auditRouter = router({
  list: fleetOperatorProcedure
    .input(auditListInputSchema)
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.audit.list(input))),
});
