//===- RendezvousTest.cpp - Ranks that meet over TCP ------------------------------===//

#include "plumb/Runtime/Rendezvous.h"
#include "plumb/Runtime/Options.h"
#include "plumb/Runtime/Sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

using namespace plumb;
using testing::HasSubstr;

namespace {

class Meeting : public testing::Test {
protected:
  Place place(int rank) const { return {rank, 3, rank, "127.0.0.1", port}; }

  /// One thread per rank; the message of the failure of each, or "".
  std::vector<std::string> meet(const std::function<void(int, RendezvousClient &)> &body,
                                const std::function<std::string(int)> &signature) {
    std::vector<std::string> messages(3);
    std::vector<std::thread> threads;
    for (int rank : {1, 2, 0})
      threads.emplace_back([&, rank] {
        std::optional<RendezvousServer> server;
        try {
          if (rank == 0)
            server.emplace(place(0), signature(0), desk, std::chrono::seconds(timeout));
          RendezvousClient client(place(rank), signature(rank), std::chrono::seconds(20));
          body(rank, client);
          client.finish();
        } catch (const Failure &failure) {
          messages[static_cast<std::size_t>(rank)] = failure.what();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    return messages;
  }
  std::vector<std::string> meet(const std::function<void(int, RendezvousClient &)> &body) {
    return meet(body, [](int) { return "program"; });
  }

  // Below the range from which the system takes ports itself.
  int timeout = 60;
  Program program{};
  Options options;
  Sources sources;
  Desk desk{program, options, sources, 0, /*driver=*/nullptr};
  int port = 20000 + static_cast<int>(::getpid() % 10000);
};

TEST_F(Meeting, ValuesReachWhoeverAwaitsThem) {
  auto messages = meet([](int rank, RendezvousClient &client) {
    std::string mine = "id of " + std::to_string(rank);
    client.publish(std::to_string(rank), std::as_bytes(std::span(mine)));
    for (int other = 0; other < 3; ++other) {
      std::vector<std::byte> value = client.await(std::to_string(other));
      EXPECT_EQ(std::string(reinterpret_cast<char *>(value.data()), value.size()),
                "id of " + std::to_string(other));
    }
    client.checkOthers();
  });
  EXPECT_EQ(messages, std::vector<std::string>(3));
}

TEST_F(Meeting, AFailureReachesRanksThatWait) {
  auto messages = meet([](int rank, RendezvousClient &client) {
    if (rank == 1) {
      client.fail("rank 1: out of luck");
      throw Failure("own");
    }
    client.await("never");
  });
  EXPECT_EQ(messages, (std::vector<std::string>{"rank 1: out of luck", "own", "rank 1: out of luck"}));
}

TEST_F(Meeting, ARankThatVanishesIsNoticed) {
  auto messages = meet([](int rank, RendezvousClient &client) {
    if (rank == 2)
      throw Failure("killed");
    client.await("never");
  });
  EXPECT_EQ(messages, (std::vector<std::string>{"rank 2 has left", "rank 2 has left", "killed"}));
}

TEST_F(Meeting, NobodyWaitsForever) {
  timeout = 1;
  auto messages = meet([](int rank, RendezvousClient &client) {
    if (rank == 0)
      client.await("never");
  });
  EXPECT_EQ(messages[0], "waiting for other ranks took longer than 1 s; 3 of 3 ranks have come");
}

TEST_F(Meeting, AllWaitForTheLastAndDecideAlike) {
  std::atomic<int> arrived{0};
  std::vector<int> decisions(3);
  auto messages = meet([&](int rank, RendezvousClient &client) {
    for (int round = 1; round <= 3; ++round) {
      ++arrived;
      client.wait();
      EXPECT_GE(arrived, 3 * round);
      client.wait();
    }
    decisions[static_cast<std::size_t>(rank)] = client.decide(7, rank == 1);
  });
  EXPECT_EQ(messages, std::vector<std::string>(3));
  EXPECT_EQ(decisions, std::vector<int>(3, decisions[0]));
}

TEST_F(Meeting, DifferentProgramsDoNotMeet) {
  auto messages = meet([](int, RendezvousClient &) {}, [](int rank) { return rank == 2 ? "B" : "A"; });
  for (const std::string &message : messages)
    EXPECT_EQ(message, "rank 2 of 3 runs B, but rank 0 runs A");
}

TEST(Place, IsReadFromTheLauncher) {
  for (const char *variable : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
    ::unsetenv(variable);
  ::setenv("OMPI_COMM_WORLD_RANK", "5", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  Place place = placeFromEnvironment();
  EXPECT_EQ(std::tuple(place.rank, place.size, place.localRank, place.port), std::tuple(5, 8, 1, 29501));
  // torchrun comes first.
  ::setenv("RANK", "9", 1);
  EXPECT_THROW(placeFromEnvironment(), UsageError);
  ::setenv("WORLD_SIZE", "9", 1);
  EXPECT_THROW(placeFromEnvironment(), UsageError);
  ::setenv("WORLD_SIZE", "10", 1);
  ::setenv("MASTER_PORT", "65535", 1);
  EXPECT_THROW(placeFromEnvironment(), UsageError);
  ::setenv("MASTER_PORT", "7000", 1);
  ::setenv("MASTER_ADDR", "node0", 1);
  place = placeFromEnvironment();
  EXPECT_EQ(std::tuple(place.rank, place.size, place.localRank, place.port), std::tuple(9, 10, 0, 7001));
  EXPECT_EQ(place.address, "node0");
  for (const char *variable : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
                               "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"})
    ::unsetenv(variable);
}

} // namespace
