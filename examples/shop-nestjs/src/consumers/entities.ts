import { Column, Entity, PrimaryColumn } from 'typeorm';

/** A confirmation that the mailer has written, one an order. */
@Entity('mails')
export class Mail {
  @PrimaryColumn('uuid', { name: 'order_id' }) orderId!: string;
  @Column('text') recipient!: string;
  @Column('text') subject!: string;
}

/** A day's sales, as the statistics have counted them. */
@Entity('daily_sales')
export class DailySales {
  @PrimaryColumn('date') day!: string;
  @Column('integer') orders!: number;
  @Column('bigint', { name: 'total_cents' }) totalCents!: string;
}

/** Tells a consumer to fail, so that one can see what becomes of its messages. */
@Entity('consumer_switches')
export class ConsumerSwitch {
  @PrimaryColumn('text') consumer!: string;
  @Column('boolean') failing!: boolean;
}
