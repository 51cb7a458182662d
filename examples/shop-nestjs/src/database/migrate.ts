import { DataSource } from 'typeorm';
import { settings } from '../settings.js';
import { connection } from './database.module.js';
import { Shop1700000000001 } from './migrations/0001-shop.js';

/** Brings schema shop to this version, as its owner. Run twice, the second time changes nothing. */
export async function migrate(): Promise<void> {
  const source = new DataSource({
    ...connection(settings.OWNER_DATABASE_URL),
    migrations: [Shop1700000000001],
  });
  await source.initialize();
  try {
    await source.runMigrations();
  } finally {
    await source.destroy();
  }
}
