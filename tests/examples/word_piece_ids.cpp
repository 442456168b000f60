// SPDX-License-Identifier: MIT
// word_piece_ids DIR: the ids of every text on standard input, one line a text. Texts may hold any
// byte but NUL and end with NUL. For word_piece_differential.py.
#include <exception>
#include <iostream>
#include <string>

#include "word_piece.hpp"

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    std::cerr << "usage: word_piece_ids DIR\n";
    return 2;
  }
  try {
    const auto tokenizer = examples::WordPiece::from_directory(arguments[1]);
    for (std::string text; std::getline(std::cin, text, '\0');) {
      for (const auto id : tokenizer.encode(text)) std::cout << id << ' ';
      std::cout << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << "word_piece_ids: " << error.what() << '\n';
    return 1;
  }
}
