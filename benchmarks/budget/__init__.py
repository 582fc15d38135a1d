"""sparsemax and softmax with limits beside torch.softmax and entmax."""
