//===- DeadlockTest.cpp - What cannot go on is reported, at once ---------------===//

#include "Ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace plumb;
using namespace plumb::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

struct Buffers {
  PerRank<float> a = PerRank<float>(8, std::vector<float>(64)), b = a;
};

TEST(Deadlock, TwoRanksThatBothSendFirst) {
  Buffers data;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    auto outcome = run(
        2,
        [&](TestRank &self) {
          auto r = static_cast<std::size_t>(self.rank);
          ncclComm_t comm = self.comm("pp");
          cudaStream_t stream = self.stream();
          PLUMB_NCCL(ncclSend(data.a[r].data(), 64, ncclFloat32, 1 - self.rank, comm, stream));
          PLUMB_NCCL(ncclRecv(data.b[r].data(), 64, ncclFloat32, 1 - self.rank, comm, stream));
        },
        seed);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(
        outcome.error,
        AllOf(HasSubstr("deadlock"),
              HasSubstr("rank 0 waits on stream 1: in ncclSend of 64 f32 to rank 1 on communicator 'pp', not "
                        "yet called by rank 1"),
              HasSubstr("rank 1 waits on stream 1: in ncclSend of 64 f32 to rank 0")));
  }
}

// The two streams would allow it, but each rank launches its two calls in the other's order.
TEST(Deadlock, LaunchOrderCountsAcrossStreams) {
  Buffers data;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    auto outcome = run(
        2,
        [&](TestRank &self) {
          auto r = static_cast<std::size_t>(self.rank);
          ncclComm_t comms[] = {self.comm("dp"), self.comm("tp")};
          cudaStream_t streams[] = {self.stream(), self.stream()};
          cudaEvent_t event = self.event();
          for (int i : {self.rank, 1 - self.rank}) {
            // The second call waits on the host side of the device for the first: an order no stream implies.
            PLUMB_NCCL(ncclAllReduce(data.a[r].data(), data.a[r].data(), 64, ncclFloat32, ncclSum, comms[i],
                                     streams[i]));
            PLUMB_CUDA(cudaEventRecord(event, streams[i]));
            PLUMB_CUDA(cudaStreamWaitEvent(streams[1 - i], event));
          }
        },
        seed);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("'dp', not yet called by rank 1"),
                                     HasSubstr("'tp', not yet called by rank 0"), HasSubstr("for event 0")));
  }
}

// Without event waits, opposite launch orders are fine: a unit only waits for the start of the one before it.
TEST(Deadlock, OppositeOrdersOnTwoStreamsCanGoOn) {
  Buffers data;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    auto outcome = run(
        2,
        [&](TestRank &self) {
          auto r = static_cast<std::size_t>(self.rank);
          ncclComm_t comms[] = {self.comm("dp"), self.comm("tp")};
          cudaStream_t streams[] = {self.stream(), self.stream()};
          for (int i : {self.rank, 1 - self.rank})
            PLUMB_NCCL(ncclAllReduce(data.a[r].data(), data.b[r].data(), 64, ncclFloat32, ncclSum, comms[i],
                                     streams[i]));
        },
        seed);
    EXPECT_EQ(outcome.code, 0) << outcome.error;
  }
}

// Head of stream 2 cannot start: the unit launched before it is stuck behind another on stream 1.
TEST(Deadlock, AUnitBehindAnUnstartedOneIsReported) {
  Buffers data;
  auto outcome = run(3, [&](TestRank &self) {
    auto r = static_cast<std::size_t>(self.rank);
    ncclComm_t first = self.comm("first"), second = self.comm("second");
    cudaStream_t streams[] = {self.stream(), self.stream()};
    float *a = data.a[r].data();
    if (self.rank == 0) {
      PLUMB_NCCL(ncclRecv(a, 1, ncclFloat32, 2, first, streams[0]));
      PLUMB_NCCL(ncclSend(a, 1, ncclFloat32, 1, first, streams[0]));
      PLUMB_NCCL(ncclSend(a, 1, ncclFloat32, 1, second, streams[1]));
    } else if (self.rank == 1) {
      PLUMB_NCCL(ncclRecv(a, 1, ncclFloat32, 0, second, streams[1]));
    }
  });
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("before ncclSend of 1 f32 to rank 1 on communicator 'second', which "
                              "was launched after a call that has not started"),
                    HasSubstr("rank 2 has ended")));
}

TEST(Deadlock, ARankThatLeavesOutACollective) {
  Buffers data;
  auto outcome = run(8, [&](TestRank &self) {
    auto r = static_cast<std::size_t>(self.rank);
    ncclComm_t comm = self.comm("world");
    if (self.rank != 5)
      PLUMB_NCCL(
          ncclAllReduce(data.a[r].data(), data.a[r].data(), 64, ncclFloat32, ncclSum, comm, self.stream()));
  });
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("rank 5 has ended"), HasSubstr("not yet called by rank 5")));
}

TEST(Deadlock, ACommunicatorThatOneRankDoesNotJoin) {
  auto outcome = run(2, [&](TestRank &self) {
    if (self.rank == 0)
      self.comm("alone");
  });
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.error, HasSubstr("rank 0 waits in the creation of communicator 'alone'"));
}

TEST(Mismatch, BothSidesAreNamed) {
  Buffers data;
  auto outcome = run(2, [&](TestRank &self) {
    auto r = static_cast<std::size_t>(self.rank);
    PLUMB_NCCL(ncclAllReduce(data.a[r].data(), data.a[r].data(), r ? 32 : 64, ncclFloat32, ncclSum,
                             self.comm("dp"), self.stream()));
  });
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("collective 0 of communicator 'dp'"),
                                   HasSubstr("rank 0 calls ncclAllReduce of 64 f32"),
                                   HasSubstr("rank 1 calls ncclAllReduce of 32 f32")));
}

TEST(Mismatch, KindTypeOperationRootAndTransfers) {
  Buffers data;
  using Issue = std::function<void(float *, ncclComm_t, cudaStream_t)>;
  auto code = [&](const Issue &zero, const Issue &one) {
    return run(2,
               [&](TestRank &self) {
                 auto r = static_cast<std::size_t>(self.rank);
                 ncclComm_t comm = self.comm("dp");
                 (r ? one : zero)(data.a[r].data(), comm, self.stream());
               })
        .code;
  };
  auto reduce = [](std::size_t count, ncclDataType_t type, ncclRedOp_t op) -> Issue {
    return [=](float *a, ncclComm_t comm, cudaStream_t stream) {
      PLUMB_NCCL(ncclAllReduce(a, a, count, type, op, comm, stream));
    };
  };
  auto broadcast = [](int root) -> Issue {
    return [=](float *a, ncclComm_t comm, cudaStream_t stream) {
      PLUMB_NCCL(ncclBroadcast(a, a, 4, ncclFloat32, root, comm, stream));
    };
  };
  auto send = [](std::size_t count, ncclDataType_t type) -> Issue {
    return [=](float *a, ncclComm_t comm, cudaStream_t stream) {
      PLUMB_NCCL(ncclSend(a, count, type, 1, comm, stream));
    };
  };
  auto receive = [](std::size_t count, ncclDataType_t type) -> Issue {
    return [=](float *a, ncclComm_t comm, cudaStream_t stream) {
      PLUMB_NCCL(ncclRecv(a, count, type, 0, comm, stream));
    };
  };
  EXPECT_EQ(code(reduce(4, ncclFloat32, ncclSum), reduce(4, ncclFloat32, ncclSum)), 0);
  EXPECT_EQ(code(reduce(4, ncclFloat32, ncclSum), reduce(4, ncclInt32, ncclSum)), 3);
  EXPECT_EQ(code(reduce(4, ncclFloat32, ncclSum), reduce(4, ncclFloat32, ncclMax)), 3);
  EXPECT_EQ(code(reduce(4, ncclFloat32, ncclSum), broadcast(0)), 3);
  EXPECT_EQ(code(broadcast(0), broadcast(1)), 3);
  EXPECT_EQ(code(send(4, ncclFloat32), receive(4, ncclFloat32)), 0);
  EXPECT_EQ(code(send(4, ncclFloat32), receive(5, ncclFloat32)), 3);
  EXPECT_EQ(code(send(4, ncclFloat32), receive(4, ncclInt32)), 3);
}

TEST(Failure, AnErrorOnOneRankStopsAllAndNamesIt) {
  Buffers data;
  auto outcome = run(4, [&](TestRank &self) {
    auto r = static_cast<std::size_t>(self.rank);
    ncclComm_t comm = self.comm("world");
    if (self.rank == 2)
      throw Failure("no luck");
    PLUMB_NCCL(
        ncclAllReduce(data.a[r].data(), data.a[r].data(), 64, ncclFloat32, ncclSum, comm, self.stream()));
  });
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.error, "rank 2: no luck");
}

TEST(Failure, WrongUseIsRejectedByTheCall) {
  Buffers data;
  auto error = [&](const std::function<void(TestRank &, float *, ncclComm_t)> &body) {
    auto outcome = run(1, [&](TestRank &self) { body(self, data.a[0].data(), self.comm("c")); });
    EXPECT_EQ(outcome.code, 1);
    return outcome.error;
  };
  EXPECT_THAT(error([](TestRank &self, float *a, ncclComm_t comm) {
                cudaStream_t one = self.stream(), two = self.stream();
                PLUMB_NCCL(ncclAllReduce(a, a, 4, ncclFloat32, ncclSum, comm, one));
                PLUMB_NCCL(ncclAllReduce(a, a, 4, ncclFloat32, ncclSum, comm, two));
              }),
              AllOf(HasSubstr("ncclAllReduce(a, a, 4, ncclFloat32, ncclSum, comm, two)"),
                    HasSubstr("DeadlockTest"), HasSubstr("communicator 'c' is used on streams 1 and 2")));
  EXPECT_THAT(error([](TestRank &self, float *a, ncclComm_t comm) {
                ncclComm_t other = self.comm("d");
                cudaStream_t one = self.stream(), two = self.stream();
                PLUMB_NCCL(ncclGroupStart());
                PLUMB_NCCL(ncclAllReduce(a, a, 4, ncclFloat32, ncclSum, comm, one));
                PLUMB_NCCL(ncclAllReduce(a, a, 4, ncclFloat32, ncclSum, other, two));
              }),
              HasSubstr("a group spans streams 1 and 2"));
  EXPECT_THAT(error([](TestRank &self, float *a, ncclComm_t comm) {
                PLUMB_NCCL(ncclSend(a, 4, ncclFloat32, 1, comm, self.stream()));
              }),
              HasSubstr("peer or root 1 is not in a communicator of 1 ranks"));
  EXPECT_THAT(error([](TestRank &self, float *a, ncclComm_t comm) {
                PLUMB_NCCL(ncclAllReduce(a, nullptr, 4, ncclFloat32, ncclSum, comm, self.stream()));
              }),
              HasSubstr("a buffer is null"));
  EXPECT_THAT(error([](TestRank &, float *, ncclComm_t) { PLUMB_NCCL(ncclGroupEnd()); }),
              HasSubstr("ncclGroupEnd without ncclGroupStart"));
}

} // namespace
