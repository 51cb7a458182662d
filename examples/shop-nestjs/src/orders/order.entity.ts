import { Column, Entity, PrimaryColumn } from 'typeorm';

/** What a customer has ordered. Written once, by the request that places it. */
@Entity('orders')
export class Order {
  @PrimaryColumn('uuid') id!: string;
  @Column('text') customer!: string;
  @Column('jsonb') items!: OrderItem[];
  @Column('integer', { name: 'total_cents' }) totalCents!: number;
  @Column({ type: 'timestamptz', name: 'placed_at', insert: false }) placedAt!: Date;
}

export interface OrderItem {
  article: string;
  quantity: number;
}
