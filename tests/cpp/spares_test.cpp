#include "linalg/spares.hpp"

#include <gtest/gtest.h>

namespace altdiff::test {
namespace {

using detail::Spare;
using detail::spare;

struct Room {
  explicit Room(Index size) : size_(size) {}
  [[nodiscard]] Index numbers() const { return size_; }
  int guests = 0;

 private:
  Index size_;
};

Spare<Room> room(Index size) {
  return spare<Room>([size](const Room& other) { return other.numbers() == size; }, size);
}

TEST(Spares, WhatWasGivenBackServesTheNextThatItFits) {
  room(10)->guests = 1;  // given back at once
  EXPECT_EQ(room(11)->guests, 0);
  EXPECT_EQ(room(10)->guests, 1);
}

TEST(Spares, NobodyGetsWhatIsInUse) {
  const Spare<Room> mine = room(20);
  mine->guests = 1;
  EXPECT_EQ(room(20)->guests, 0);
}

TEST(Spares, TheLastGivenBackIsTheFirstTaken) {
  {
    const Spare<Room> early = room(30);
    early->guests = 1;
    const Spare<Room> late = room(30);
    late->guests = 2;
  }  // `late` goes first
  EXPECT_EQ(room(30)->guests, 1);
}

TEST(Spares, LargeOnesDoNotWait) {
  const Index large = 1000000;
  room(large)->guests = 1;  // given back at once
  EXPECT_EQ(room(large)->guests, 0);
}

TEST(Spares, TheOldestLeaveWhenTooManyWait) {
  room(40)->guests = 1;  // given back at once
  std::vector<Spare<Room>> many;
  many.reserve(100);
  for (int i = 0; i < 100; ++i) many.push_back(room(41));
  many.clear();
  EXPECT_EQ(room(40)->guests, 0);
}

}  // namespace
}  // namespace altdiff::test
