import { IconBook2 } from '@tabler/icons-react';
import { usePathname, useRouter } from 'next/navigation';
import { routes } from '~/lib/routes.ts';
import { Link } from '../link.tsx';
import { DatacenterStates } from './datacenter-states.tsx';
import { useShortcut } from '../shortcuts/use-shortcut.ts';
import { isWithin, NAV_GROUPS, type NavItem } from './nav-items.ts';
import { Wordmark } from './wordmark.tsx';
import classes from './shell.module.css';

function NavLink({
  item,
  isHere,
  onNavigate,
}: {
  readonly item: NavItem;
  readonly isHere: boolean;
  readonly onNavigate: (() => void) | undefined;
}) {
  const router = useRouter();
  useShortcut(`g ${item.key}`, `Go to ${item.label}`, () => router.push(item.href));
  return (
    <Link
      href={item.href}
      className={classes['link']}
      aria-current={isHere ? 'page' : undefined}
      {...(onNavigate === undefined ? {} : { onClick: onNavigate })}
    >
      <item.icon size={16} stroke={1.7} aria-hidden />
      {item.label}
    </Link>
  );
}

/** The links to all pages. */
export function Nav({ onNavigate }: { readonly onNavigate?: () => void }) {
  const pathname = usePathname();
  return (
    <nav className={classes['nav']} aria-label="Pages">
      <Wordmark />
      {NAV_GROUPS.map((group) => (
        <div key={group.label} className={classes['group']}>
          <span className={classes['group-label']}>{group.label}</span>
          {group.items.map((item) => (
            <NavLink
              key={item.href}
              item={item}
              isHere={isWithin(pathname, item)}
              onNavigate={onNavigate}
            />
          ))}
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
