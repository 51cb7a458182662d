import { callDbFunction } from 'hfs-lite';
import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The shop's tables, what each role may do with them, and who gets which event. Runs as the owner of schema shop. */
export class Shop1700000000001 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      create table shop.orders (
        id uuid primary key,
        customer text not null,
        items jsonb not null,
        total_cents integer not null check (total_cents >= 0),
        placed_at timestamptz not null default clock_timestamp()
      );
      -- The minute reports ask for a minute of it.
      create index orders_placed_at on shop.orders (placed_at);

      create table shop.shipments (
        order_id uuid primary key,
        total_cents integer not null,
        due_at timestamptz default clock_timestamp(),
        payment_id text,
        tracking_number text,
        -- Shipped, and only then, it is never due again.
        check ((due_at is null) = (tracking_number is not null))
      );
      -- The worker takes what is due, the longest first.
      create index shipments_due_at on shop.shipments (due_at) where due_at is not null;

      create table shop.mails (
        order_id uuid primary key,
        recipient text not null,
        subject text not null,
        written_at timestamptz not null default clock_timestamp()
      );

      create table shop.daily_sales (
        day date primary key,
        orders integer not null,
        total_cents bigint not null
      );

      create table shop.minute_reports (
        minute timestamptz primary key,
        orders integer not null,
        total_cents bigint not null,
        reported_by text not null
      );

      create table shop.consumer_switches (
        consumer text primary key,
        failing boolean not null default false
      );
      insert into shop.consumer_switches (consumer) values ('mailer'), ('statistics');

      grant usage on schema shop to app_be, operator;
      grant select, insert on shop.orders, shop.mails, shop.minute_reports to app_be;
      grant select, insert, update on shop.shipments, shop.daily_sales to app_be;
      grant select on shop.consumer_switches to app_be;
      grant select on shop.shipments, shop.minute_reports, shop.consumer_switches to operator;
      grant update (failing) on shop.consumer_switches to operator;
    `);
    await callDbFunction(runner, 'public.event_bus_subscribe', ['order.placed', 'mailer']);
    await callDbFunction(runner, 'public.event_bus_subscribe', ['order.placed', 'statistics']);
  }

  async down(runner: QueryRunner): Promise<void> {
    // The queues stay, with what they hold.
    await callDbFunction(runner, 'public.event_bus_unsubscribe', ['order.placed', 'order.placed__mailer']);
    await callDbFunction(runner, 'public.event_bus_unsubscribe', ['order.placed', 'order.placed__statistics']);
    await runner.query(`
      drop table shop.orders, shop.shipments, shop.mails, shop.daily_sales, shop.minute_reports, shop.consumer_switches;
    `);
  }
}
