import { Column, Entity, PrimaryColumn } from 'typeorm';

/** What was sold in a minute, and which instance counted it. */
@Entity('minute_reports')
export class MinuteReport {
  @PrimaryColumn('timestamptz') minute!: Date;
  @Column('integer') orders!: number;
  @Column('bigint', { name: 'total_cents' }) totalCents!: string;
  @Column('text', { name: 'reported_by' }) reportedBy!: string;
}
