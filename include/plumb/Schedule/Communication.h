//===- Communication.h - Insert sends and receives --------------*- C++ -*-===//
//
// Every (edge, direction) that joins two ranks has its own communicator and, on each rank, its own stream, so
// a transfer never keeps a computation waiting that does not need it. What is left to decide is the order in
// which a rank launches its calls: NCCL starts a call of a device only after all calls launched before it
// have started.
//
// Placement. The compute list is simulated, and a transfer takes place at the moment when its producer ends:
// the send is listed there on the one rank, and the receive there on the other, that is, before the next
// computation which the receiver starts. Both ends are thus listed at one moment of one global order:
//   * no deadlock, since every launch order is a part of one order of all transfers, which respects the
//   dependences;
//   * the two ends of each channel agree on the order of messages;
//   * a receive is posted when it can be matched: it holds its buffer from the arrival of the data on, not
//   earlier, and
//     no later call queues behind a receive whose data does not exist yet.
// Stages of one rank hand over in place: no transfer.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_COMMUNICATION_H
#define PLUMB_SCHEDULE_COMMUNICATION_H

#include "plumb/Schedule/Problem.h"
#include "plumb/Schedule/Schedule.h"

namespace plumb::schedule {

/// Returns `compute` with SEND_F, RECV_F, SEND_B and RECV_B for every edge between two ranks. `compute` must
/// be a list without transfers; sharding actions keep their place before the computation that they precede.
Result<Schedule> placeCommunication(const Problem &problem, const Schedule &compute);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_COMMUNICATION_H
