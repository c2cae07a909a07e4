import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { duration, fullName } from '~/lib/format.ts';
import { at } from '~/lib/here.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { type GrantView, GROUP_OF } from '~/resources/grant-view.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { VisibleText } from '~/ui/text.tsx';
import { OvertakenNotice, useOvertaken } from './overtaken-notice.tsx';
import classes from './dialogs.module.css';

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
  const overtaken = useOvertaken(face, grant, isOpen);
  if (isOpen !== wasOpen) {
    setWasOpen(isOpen);
    if (isOpen) {
      setGrant(props.grant);
      block.reset();
      allow.reset();
    }
  }
  const mutation = grant.renewable ? block : allow;
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
                    : `Nothing changed: the grant has ended, or another person did it first.`,
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
