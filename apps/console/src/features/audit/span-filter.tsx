import { Button } from '@mantine/core';
import { IconChevronDown } from '@tabler/icons-react';
import dynamic from 'next/dynamic';
import { useOpener } from '~/ui/menus/use-opener.ts';
import { type Span, spanText } from './audit-search.ts';

const SpanPopover = dynamic(
  () => import('./span-popover.tsx').then((module) => module.SpanPopover),
  {
    ssr: false,
  },
);

/** The time that a list spans, as a button; times are UTC, as everywhere on the page. */
export function SpanFilter({
  span,
  onChange,
}: {
  readonly span: Span;
  readonly onChange: (span: Span) => void;
}) {
  const opener = useOpener('dialog');
  const isSet = span.from !== null || span.to !== null;
  return (
    <>
      <Button
        {...opener.props}
        variant={isSet ? 'light' : 'default'}
        rightSection={<IconChevronDown size={13} />}
      >
        {spanText(span.from, span.to)}
      </Button>
      {opener.isWanted ? <SpanPopover opener={opener} span={span} onChange={onChange} /> : null}
    </>
  );
}
