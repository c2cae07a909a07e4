import { Checkbox, Stack } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import type { MutationStatus } from '@tanstack/react-query';
import { useState } from 'react';
import { resourceText } from '@leasehold/keys-core';
import type { Inputs, Outputs } from '~/lib/api/api.ts';
import { duration, fullName } from '~/lib/format.ts';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import {
  type GrantFace,
  type GrantView,
  GROUP_OF,
  isOneOfSeveral,
} from '~/resources/grant-view.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { Notice } from '~/ui/states.tsx';
import { VisibleText } from '~/ui/text.tsx';
import { ConsequenceList, ModeChoice } from './act-parts.tsx';
import { useLatestGrant } from './latest-grant.ts';
import {
  consequencesOf,
  overtakenBy,
  type RevokeMode,
  type RevokePlan,
} from './revoke-consequences.ts';
import { followedRevokes } from './revoke-progress.ts';
import classes from './actions.module.css';

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
  const overtaken = useOvertaken(face, grant, { isOpen, ownAct: revoke.status });
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
    status: mutation.status,
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
      // Followed even if the page was left before the answer is there.
      mutation.mutateAsync(input).then(
        (answer: RevokeAnswer) => {
          followedRevokes.follow({
            face,
            namespace: grant.namespace,
            name: grant.name,
            ...at(grant.datacenter),
            leaseId: grant.leaseId,
            isOneOfSeveral: isOneOfSeveral(grant),
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

/** Faces whose renewal can be blocked: an environment can only be revoked. */
type BlockableFace = 'key' | 'lease';

/** Blocks the renewal of a grant, or allows it again. */
export function BlockDialog(
  props: DialogProps & {
    readonly face: BlockableFace;
    readonly grant: GrantView;
  },
) {
  const { face, isOpen, onClose } = props;
  const [grant, setGrant] = useState(props.grant);
  const [wasOpen, setWasOpen] = useState(isOpen);
  const block = useApiMutation(GROUP_OF[face], 'blockRenewal');
  const allow = useApiMutation(GROUP_OF[face], 'allowRenewal');
  const mutation = grant.renewable ? block : allow;
  const overtaken = useOvertaken(face, grant, { isOpen, ownAct: mutation.status });
  if (isOpen !== wasOpen) {
    setWasOpen(isOpen);
    if (isOpen) {
      setGrant(props.grant);
      block.reset();
      allow.reset();
    }
  }
  const verb = grant.renewable ? 'Block' : 'Allow';
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={onClose}
      title={`${verb} renewal of ${fullName(grant)}`}
      reason="required"
      isReady={overtaken?.isOver !== true}
      actLabel={`${verb} renewal`}
      act={{
        isPending: mutation.isPending,
        error: mutation.error,
        run: (reason) =>
          mutation.mutate(
            {
              leaseId: grant.leaseId,
              ...at(grant.datacenter),
              reason,
            },
            {
              onSuccess: ({ changed }) => {
                onClose();
                notifications.show({
                  message: changed
                    ? `Renewal of ${fullName(grant)} is ${grant.renewable ? 'blocked' : 'allowed'}.`
                    : `Nothing changed: the grant has ended, or it was done before.`,
                });
              },
            },
          ),
      }}
    >
      <OvertakenNotice by={overtaken} />
      {grant.renewable ? (
        <BlockConsequences face={face} grant={grant} />
      ) : (
        <p className={classes['text']}>
          The next renewal is answered, if it comes before the grant expires. A holder that has
          begun to stop does not continue.
        </p>
      )}
    </ActDialog>
  );
}

function BlockConsequences({
  face,
  grant,
}: {
  readonly face: BlockableFace;
  readonly grant: GrantView;
}) {
  const nowMs = useDatabaseNow() ?? Date.parse(grant.asOf);
  const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = grant.ladder;
  const renewsInMs = Date.parse(grant.expiresAt) - (ttlMs - renewAfterMs) - nowMs;
  const soonest = renewsInMs > 0 ? `in ${duration(renewsInMs)}` : 'at any moment';
  return (
    <div className={classes['consequences']}>
      <p className={classes['text']}>
        <VisibleText>{grant.holder}</VisibleText> holds it, with token{' '}
        <span className="mono">{grant.fencingToken}</span>.
      </p>
      <ul>
        <li>Its next renewal, due {soonest}, is refused. Nothing happens before that.</li>
        <li>
          {face === 'key'
            ? `The backend then gets SIGTERM, and SIGKILL ${duration(hardAfterMs - softAfterMs)} later if it is still there.`
            : 'The service is then told to stop, and stops by its own deadline at worst.'}
        </li>
        <li>Until then the renewal can be allowed again.</li>
      </ul>
      <p className={classes['worst']}>
        {`Its holder stops within ${duration(hardAfterMs)} at worst. It is free for others within ${duration(ttlMs)}.`}
      </p>
    </div>
  );
}

/** The page behind a dialog is paused: only this looks what has become of the grant. */
const EVERY_MS = 2_000;

/** What has become of a grant since a dialog about it was opened, and whether it is over. */
function useOvertaken(
  face: GrantFace,
  grant: GrantView,
  { isOpen, ownAct }: { readonly isOpen: boolean; readonly ownAct: MutationStatus },
) {
  const sought = { face, ...grant, isOneOfSeveral: isOneOfSeveral(grant) };
  const latest = useLatestGrant(sought, { isEnabled: isOpen, everyMs: EVERY_MS });
  return isOpen ? overtakenBy(grant, latest, ownAct) : undefined;
}

function OvertakenNotice({ by }: { readonly by: ReturnType<typeof useOvertaken> }) {
  if (by === undefined) return null;
  return (
    <Notice tone="warn">
      <VisibleText>{by.text}</VisibleText>
    </Notice>
  );
}
