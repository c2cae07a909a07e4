import { LIMITS } from '@leasehold/keys-core';
import { useState } from 'react';
import { count } from '~/lib/format.ts';
import { at } from '~/lib/here.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { type GrantFace, type GrantView, isInForce } from '~/resources/grant-view.ts';
import { ActFailure } from '~/ui/states.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { BulkDialog } from './bulk-bar.tsx';
import { useBulkId } from './use-bulk.ts';
import { type ListedInput, useMatching } from './use-matching.ts';

const NONE: readonly GrantView[] = [];

/** Revokes everything that is held in the namespace that a list shows, after a dialog with its number. */
export function StopAll({
  face,
  input,
}: {
  readonly face: GrantFace;
  readonly input: ListedInput;
}) {
  const [, setBulkId] = useBulkId();
  const [found, setFound] = useState<{
    readonly items: readonly GrantView[];
    readonly isCut: boolean;
  }>();
  const { read, readCount, error } = useMatching(face, input);
  const roleWhyNot = useWhyNot('operator');
  const { datacenter } = input;
  const isElsewhere = datacenter !== 'all' && at(datacenter).datacenter !== undefined;
  const whyNot =
    roleWhyNot ??
    (isElsewhere ? 'Bulk actions work in one datacenter. Use the console there.' : undefined);
  return (
    <>
      <GuardedButton
        variant="default"
        whyNot={whyNot}
        loading={readCount !== null}
        onClick={() =>
          void read(({ items, isCut }) => setFound({ items: items.filter(isInForce), isCut }))
        }
      >
        Stop all
      </GuardedButton>
      <ActFailure error={error} />
      <BulkDialog
        face={face}
        action={found === undefined ? null : 'revoke'}
        items={found?.items ?? NONE}
        note={
          found?.isCut === true
            ? `There are more. These are the first ${count(LIMITS.bulkItemsMax)}: do it again for the rest.`
            : undefined
        }
        onClose={() => setFound(undefined)}
        onStarted={(bulkId) => {
          setFound(undefined);
          setBulkId(bulkId);
        }}
      />
    </>
  );
}
