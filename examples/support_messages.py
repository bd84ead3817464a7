"""The data of the README's first screen: 24 hand-written support messages to learn from, and 24 others to test with.

python examples/support_messages.py    # writes them into tickets.csv and test.csv, for docs/first_model.md
"""

import csv

LEARN = {
    "billing": (
        "I was charged twice for the same order.",
        "The invoice shows the wrong amount.",
        "When will I get my refund?",
        "Can I pay with a different credit card?",
        "My subscription renewed although I cancelled it.",
        "The discount code did not lower the price.",
    ),
    "delivery": (
        "My parcel has not arrived yet.",
        "The tracking page has said 'in transit' for a week.",
        "The courier left the box at the wrong house.",
        "Do you ship to Norway?",
        "The package was damaged when it got here.",
        "I need to change the shipping address.",
    ),
    "login": (
        "I forgot my password.",
        "The reset email never comes.",
        "My account is locked after too many attempts.",
        "It says my username does not exist.",
        "The code from the text message does not work.",
        "I am logged out every few minutes.",
    ),
    "praise": (
        "Thank you, that solved it at once!",
        "Best customer service I have ever had.",
        "I love the new design.",
        "You people are wonderful.",
        "Great product, my whole family uses it.",
        "Just wanted to say how happy I am.",
    ),
}

UNSEEN = {
    "billing": (
        "There is a payment on my bank statement that I do not recognize.",
        "Why did the monthly fee go up?",
        "Please send me a receipt for March.",
        "You took the money but my plan is still the free one.",
        "I want my money back.",
        "Does the total include tax?",
    ),
    "delivery": (
        "Where is my order?",
        "The driver rang at the neighbours' and drove off.",
        "How long does it take to reach Canada?",
        "Half of the things were missing from the box.",
        "Can I pick it up at the post office instead?",
        "It was supposed to be here on Tuesday.",
    ),
    "login": (
        "I can't sign in any more.",
        "Your site rejects my password, and I am sure it is right.",
        "How do I turn off two-factor authentication?",
        "I no longer have the phone that gets the codes.",
        "The link in the email says it has expired.",
        "Somebody else seems to have got into my account.",
    ),
    "praise": (
        "Keep up the good work!",
        "Your support team is so kind and so quick.",
        "This is the nicest app I have used in years.",
        "Wow, I did not expect such quality.",
        "Five stars from me.",
        "I told all my friends about you.",
    ),
}

NAMES = tuple(LEARN)
texts, new_texts = ([text for group in messages.values() for text in group] for messages in (LEARN, UNSEEN))
labels, new_labels = ([name for name, group in messages.items() for _ in group] for messages in (LEARN, UNSEEN))

if __name__ == "__main__":
    for path, columns in (("tickets.csv", (texts, labels)), ("test.csv", (new_texts, new_labels))):
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("message", "team"), *zip(*columns, strict=True)])
