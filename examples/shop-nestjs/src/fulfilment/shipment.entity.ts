import { Column, Entity, PrimaryColumn } from 'typeorm';

/**
 * An order that is to be charged and shipped: the worker's list. Jobs are found by their keys only, and this is where a
 * worker knows the keys from.
 */
@Entity('shipments')
export class Shipment {
  @PrimaryColumn('uuid', { name: 'order_id' }) orderId!: string;
  @Column('integer', { name: 'total_cents' }) totalCents!: number;
  /** When to look at it next: at once, when the lease of who has it ends, after a pause; never again once shipped. */
  @Column('timestamptz', { name: 'due_at', nullable: true }) dueAt!: Date | null;
  @Column('text', { name: 'payment_id', nullable: true }) paymentId!: string | null;
  @Column('text', { name: 'tracking_number', nullable: true }) trackingNumber!: string | null;
}
