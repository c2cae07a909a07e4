import { IconBook2 } from '@tabler/icons-react';
import { usePathname } from 'next/navigation';
import { routes } from '~/lib/routes.ts';
import { Link } from '../link.tsx';
import { DatacenterStates } from './datacenter-states.tsx';
import { isWithin, NAV_GROUPS } from './nav-items.ts';
import { Wordmark } from './wordmark.tsx';
import classes from './shell.module.css';

/** The links to all pages. */
export function Nav({ onNavigate }: { readonly onNavigate?: () => void }) {
  const pathname = usePathname();
  return (
    <nav className={classes['nav']} aria-label="Pages">
      <Wordmark />
      {NAV_GROUPS.map((group) => (
        <div key={group.label} className={classes['group']}>
          <span className={classes['group-label']}>{group.label}</span>
          {group.items.map((item) => {
            const isHere = isWithin(pathname, item);
            return (
              <Link
                key={item.href}
                href={item.href}
                className={classes['link']}
                aria-current={isHere ? 'page' : undefined}
                {...(onNavigate === undefined ? {} : { onClick: onNavigate })}
              >
                <item.icon size={16} stroke={1.7} aria-hidden />
                {item.label}
              </Link>
            );
          })}
        </div>
      ))}
      {/* No page of Next: it is loaded as a whole. */}
      <a
        href={routes.documentation}
        className={`${classes['link'] ?? ''} ${classes['documentation'] ?? ''}`}
      >
        <IconBook2 size={16} stroke={1.7} aria-hidden />
        Documentation
      </a>
      <div className={classes['nav-foot']}>
        <DatacenterStates />
      </div>
    </nav>
  );
}
