import { VisuallyHidden } from '@mantine/core';
import { useEffect, useState } from 'react';
import { Notice } from '~/ui/states.tsx';
import { CopyableId } from '~/ui/text.tsx';
import { type SignInProblem, untilText } from './sign-in-texts.ts';

const TICK_MS = 1_000;

/** Why a sign-in was refused, and when the person may try again. */
export function ProblemNotice({ problem }: { readonly problem: SignInProblem }) {
  const { text, incidentId, until } = problem;
  return (
    <Notice tone="bad">
      {text}
      {until === undefined ? null : <Until key={until.at} {...until} />}
      {incidentId === undefined ? null : (
        <>
          {' '}
          Incident <CopyableId id={incidentId} label="incident id" />
        </>
      )}
    </Notice>
  );
}

/** Counts down by the monotonic clock. Screen readers get the end time, which does not change. */
function Until({ at, inMs }: { readonly at: string; readonly inMs: number | null }) {
  const [restMs, setRestMs] = useState(inMs);
  useEffect(() => {
    if (inMs === null) return undefined;
    const sinceMs = performance.now();
    const timer = setInterval(() => setRestMs(inMs - (performance.now() - sinceMs)), TICK_MS);
    return () => clearInterval(timer);
  }, [inMs]);
  return (
    <>
      {' '}
      <span aria-hidden>{untilText(at, restMs)}</span>
      <VisuallyHidden>{untilText(at, null)}</VisuallyHidden>
    </>
  );
}
