import { Module } from '@nestjs/common';
import { DatabaseModule } from '../database/database.module.js';
import { Mailer } from './mailer.js';
import { Statistics } from './statistics.js';

@Module({
  imports: [DatabaseModule],
  providers: [Mailer, Statistics],
})
export class ConsumersModule {}
