import { Skeleton, Stack } from '@mantine/core';

/** What stands where a detail page will be. */
export function DetailSkeleton() {
  return (
    <Stack gap="sm" aria-busy="true" aria-label="Loading" role="status">
      <Skeleton height={220} />
      <Skeleton height={28} width="40%" />
      <Skeleton height={160} />
    </Stack>
  );
}
