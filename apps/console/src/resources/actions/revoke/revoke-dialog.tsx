import { resourceText } from '@leasehold/keys-core';
import { Checkbox, Stack } from '@mantine/core';
import { useState } from 'react';
import type { Inputs, Outputs } from '~/lib/api/api.ts';
import { fullName } from '~/lib/format.ts';
import { at } from '~/lib/here.ts';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { ConsequenceList } from '~/resources/actions/consequence-list.tsx';
import { ModeChoice } from '~/resources/actions/mode-choice.tsx';
import { OvertakenNotice, useOvertaken } from '~/resources/actions/overtaken-notice.tsx';
import { type GrantFace, type GrantView, GROUP_OF } from '~/resources/grant-view.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { Notice } from '~/ui/states.tsx';
import { followedRevokes } from './followed-revokes.ts';
import { consequencesOf, type RevokeMode, type RevokePlan } from './revoke-consequences.ts';

interface GrantDialogProps extends DialogProps {
  readonly face: GrantFace;
  /** The grant that is shown: the act applies to it or to no grant. */
  readonly grant: GrantView;
}

/**
 * Takes a grant from its holder. Shows who that is, what will happen and by when at the latest; a
 * banner then follows the revoke (`revoke-banners.tsx`).
 */
export function RevokeDialog(props: GrantDialogProps) {
  const { face, isOpen, onClose } = props;
  // The grant that was shown when the dialog was opened: never the next holder's.
  const [grant, setGrant] = useState(props.grant);
  const [wasOpen, setWasOpen] = useState(isOpen);
  const [mode, setMode] = useState<RevokeMode>('graceful');
  const [isAbandoned, setAbandoned] = useState(false);
  const revoke = useRevoke(face);
  const overtaken = useOvertaken(face, grant, isOpen);
  if (isOpen !== wasOpen) {
    setWasOpen(isOpen);
    if (isOpen) {
      setGrant(props.grant);
      setMode('graceful');
      setAbandoned(false);
      revoke.reset();
    }
  }
  const isForced = mode === 'force';
  const plan: RevokePlan = { face, grant, mode, isAbandoned: isForced && isAbandoned };
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={onClose}
      title={`Revoke ${fullName(grant)}`}
      reason="required"
      typed={isForced ? { what: `the name of the ${face}`, text: resourceText(grant) } : undefined}
      actLabel={isForced ? 'Revoke by force' : 'Revoke'}
      isDangerous={isForced}
      isReady={overtaken?.isOver !== true}
      act={{
        isPending: revoke.isPending,
        error: revoke.error,
        run: (reason) => revoke.run(plan, reason ?? '', onClose),
      }}
    >
      <Stack gap="sm">
        <OvertakenNotice by={overtaken} />
        <ModeChoice mode={mode} onChange={setMode} />
        <RevokeConsequences plan={plan} />
        {isForced && face === 'key' ? (
          <Checkbox
            size="xs"
            label="Abandon the backend: let others have the key before the backend is known to be gone"
            checked={isAbandoned}
            onChange={(event) => setAbandoned(event.currentTarget.checked)}
          />
        ) : null}
        {plan.isAbandoned ? (
          <Notice tone="bad">
            Two backends may run for this key at once. Use it only if the machine is certainly gone.
          </Notice>
        ) : null}
      </Stack>
    </ActDialog>
  );
}

/** Updated when the mode changes, and as time passes. */
function RevokeConsequences({ plan }: { readonly plan: RevokePlan }) {
  const nowMs = useDatabaseNow() ?? Date.parse(plan.grant.asOf);
  return <ConsequenceList consequences={consequencesOf(plan, nowMs)} />;
}

type RevokeAnswer = Outputs['keys']['revoke'];

/** Revokes a grant of any face, and begins to follow it. */
function useRevoke(face: GrantFace) {
  const mutation = useApiMutation(GROUP_OF[face], 'revoke');
  return {
    isPending: mutation.isPending,
    error: mutation.error,
    reset: mutation.reset,
    run({ grant, mode, isAbandoned }: RevokePlan, reason: string, onDone: () => void): void {
      const input: Inputs['keys']['revoke'] = {
        leaseId: grant.leaseId,
        mode,
        reason,
        ...at(grant.datacenter),
        ...(isAbandoned ? { abandon: true } : {}),
      };
      const requestedAtMs = databaseClock.nowMs() ?? Date.parse(grant.asOf);
      // Followed even if the dialog is closed before the answer is there.
      mutation.mutateAsync(input).then(
        (answer: RevokeAnswer) => {
          followedRevokes.follow({
            face,
            namespace: grant.namespace,
            name: grant.name,
            ...at(grant.datacenter),
            leaseId: grant.leaseId,
            fencingToken: grant.fencingToken,
            backendId: grant.backendId ?? null,
            mode,
            outcome: answer.outcome,
            requestedAt: new Date(requestedAtMs).toISOString(),
            stopsBy: answer.stopsBy,
          });
          onDone();
        },
        // The dialog shows the error.
        () => undefined,
      );
    },
  };
}
