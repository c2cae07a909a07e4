import { Skeleton, Stack } from '@mantine/core';

/** The placeholder while a detail page is loading. */
export function DetailSkeleton() {
  return (
    <Stack gap="sm" aria-busy="true" aria-label="Loading" role="status">
      <Skeleton height={220} />
      <Skeleton height={28} width="40%" />
      <Skeleton height={160} />
    </Stack>
  );
}
