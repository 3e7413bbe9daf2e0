#include "plumb/Schedule/Location.h"
#include "plumb/Schedule/Schedule.h"
#include <gtest/gtest.h>

using namespace plumb::schedule;

TEST(Action, TextFormRoundTrips) {
  for (const char *text : {"2F0", "0B12", "3I1", "3W1", "1SEND_F3", "2RECV_F3", "2SEND_B3", "1RECV_B3",
                           "0SEND_F3>2", "2RECV_F3<0", "2SEND_B3>0", "0RECV_B3<2", "0UNSHARD", "7RESHARD",
                           "4REDUCE_GRAD", "(0F7;7B3)OVERLAP_F_B", "(1F2;6I0)OVERLAP_F_B"}) {
    Result<Action> action = parseAction(text);
    ASSERT_TRUE(action) << action.diagnostic().toString();
    EXPECT_EQ(toString(*action), text);
  }
  EXPECT_EQ(*parseAction(" 2F0\t"), Action::forward(2, 0));
  EXPECT_TRUE(parseAction("  ")->isIdle());
  EXPECT_EQ(parseAction("1SEND_F3")->peer, 2);
  EXPECT_EQ(parseAction("1SEND_B3")->peer, 0);
  EXPECT_EQ(toString(*parseAction("0SEND_F3>1")), "0SEND_F3");
}

TEST(Action, MalformedTextIsLocated) {
  for (auto [text, column] :
       std::vector<std::pair<const char *, const char *>>{{"0F0garbage", "column 4"},
                                                          {"0F 0", "column 3"},
                                                          {"0X0", "column 2"},
                                                          {"0F", "column 3"},
                                                          {"-1F0", "column 1"},
                                                          {"F0", "column 1"},
                                                          {"99999999999F0", "column 1"},
                                                          {"(0F2;0B0OVERLAP_F_B", "column 9"},
                                                          {"(0B2;0B0)OVERLAP_F_B", "column 5"},
                                                          {"(0F2;0W0)OVERLAP_F_B", "column 9"},
                                                          {"(0F2,0B0)", "column 5"},
                                                          {"0UNSHARD1", "column 9"},
                                                          {"0SEND_F1>", "column 10"}}) {
    Result<Action> action = parseAction(text);
    ASSERT_FALSE(action) << text;
    EXPECT_EQ(action.diagnostic().violation, Violation::BadActionText);
    EXPECT_NE(action.diagnostic().message.find(column), std::string::npos) << action.diagnostic().message;
  }
}

TEST(Schedule, CSVRoundTripsWithIdleCells) {
  const std::string text = "0F0,,0F1,0B0,0B1\n,1F0,1B0,(1F1;1B0)OVERLAP_F_B\n";
  Result<Schedule> schedule = parseCSV(text);
  ASSERT_TRUE(schedule);
  EXPECT_EQ(toCSV(*schedule), text);
  EXPECT_EQ(schedule->numActions(), 7u);
  EXPECT_EQ(*parseCSV("0F0,,0F1,0B0,0B1\r\n,1F0,1B0,(1F1;1B0)OVERLAP_F_B"), *schedule);
}

TEST(Schedule, CSVErrorsNameRankAndCell) {
  Result<Schedule> schedule = parseCSV("0F0,0B0\n1F0,,1Q0\n");
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.diagnostic().rank, 1);
  EXPECT_EQ(schedule.diagnostic().cell, 2);
  EXPECT_EQ(schedule.diagnostic().action, "1Q0");
  EXPECT_EQ(parseCSV("").diagnostic().violation, Violation::EmptyFile);
  EXPECT_EQ(parseCSV(",,\n,\n").diagnostic().violation, Violation::NoActions);
}

TEST(Schedule, JSONIsReadAsItIsWritten) {
  Result<Schedule> schedule =
      parse("{\n \"kind\": \"custom\",\n \"actions\": [[\"0F0\", \"\", \"0B0\"],\n  [\"1F0\", \"1B0\"]]}");
  ASSERT_TRUE(schedule) << schedule.diagnostic().toString();
  EXPECT_EQ(*schedule, *parse("0F0,,0B0\n1F0,1B0\n"));
}

TEST(Schedule, JSONErrorsNameRankAndCell) {
  const std::string text = "{\"actions\": [[\"0F0\"],\n  [\"1F0\", \"1Q0\"]]}";
  Result<Schedule> schedule = parse(text);
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.diagnostic().rank, 1);
  EXPECT_EQ(schedule.diagnostic().cell, 1);
  EXPECT_EQ(locateCell(text, 1, 1), std::pair(2, 11));
  EXPECT_EQ(locateCell(text, 0, 0), std::pair(1, 15));
  EXPECT_EQ(locateCell(text, 5, 5).second, 0);
  EXPECT_EQ(parse("{\"actions\": [[]]}").diagnostic().violation, Violation::NoActions);
  for (const char *wrong : {"{", "{}", "{\"actions\": 1}", "{\"actions\": [1]}", "{\"actions\": [[1]]}"})
    EXPECT_EQ(parse(wrong).diagnostic().violation, Violation::BadActionText) << wrong;
}
