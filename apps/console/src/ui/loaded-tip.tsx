import { Tooltip } from '@mantine/core';
import type { ReactNode } from 'react';

/** The visible part of a {@link Tip}, which loads it when a tip is needed. */
export function LoadedTip({
  id,
  target,
  isOpen,
  label,
}: {
  readonly id: string;
  readonly target: HTMLElement;
  readonly isOpen: boolean;
  readonly label: ReactNode;
}) {
  // Mantine gives the tip an id of its own.
  return <Tooltip target={target} opened={isOpen} label={<span id={id}>{label}</span>} />;
}
