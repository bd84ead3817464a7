"""What the kit that the tests export is made of."""

NAME = "1_small"  # as no name in Kubernetes may begin
LABELS = ("bad", "good", "좋아요")
TEXTS = ["w1 w2", "", "w3, w4!", "w5 " * 40]
METRICS = {"chosen_by": "accuracy", "best_epoch": 1, "valid": {"accuracy": 0.9}, "rows": {"train": 7, "valid": 3}}
