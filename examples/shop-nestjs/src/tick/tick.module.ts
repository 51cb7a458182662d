import { Module } from '@nestjs/common';
import { DatabaseModule } from '../database/database.module.js';
import { Tick } from './tick.js';

@Module({
  imports: [DatabaseModule],
  providers: [Tick],
})
export class TickModule {}
