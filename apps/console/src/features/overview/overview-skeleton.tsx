import { Skeleton } from '@mantine/core';
import classes from './overview.module.css';

/** The page's shape while its first numbers are on their way. */
export function OverviewSkeleton() {
  return (
    <div className={classes['page']} aria-busy aria-label="Loading" role="status">
      <Skeleton height={44} />
      <div className={classes['tiles']}>
        {['a', 'b', 'c', 'd', 'e', 'f'].map((key) => (
          <Skeleton key={key} height={86} />
        ))}
      </div>
      <div className={classes['charts']}>
        {['a', 'b', 'c', 'd'].map((key) => (
          <Skeleton key={key} height={220} />
        ))}
      </div>
    </div>
  );
}
