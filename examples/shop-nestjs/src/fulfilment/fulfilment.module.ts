import { Module } from '@nestjs/common';
import { DatabaseModule } from '../database/database.module.js';
import { MessagesController } from './messages.controller.js';
import { Outside } from './outside.client.js';
import { FulfilmentWorker } from './worker.js';

@Module({
  imports: [DatabaseModule],
  controllers: [MessagesController],
  providers: [FulfilmentWorker, Outside],
})
export class FulfilmentModule {}
